#include "reference/contract/op.h"
