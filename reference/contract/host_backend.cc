#include "reference/contract/host_backend.h"
