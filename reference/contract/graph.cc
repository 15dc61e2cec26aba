#include "reference/contract/graph.h"
