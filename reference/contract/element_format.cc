#include "reference/contract/element_format.h"
