#include "reference/contract/digest.h"
