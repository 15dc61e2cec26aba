#include "reference/contract/quant_spec.h"
