#include "reference/contract/estimator.h"
