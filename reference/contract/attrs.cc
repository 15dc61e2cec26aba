#include "reference/contract/attrs.h"
