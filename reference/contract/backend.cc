#include "reference/contract/backend.h"
