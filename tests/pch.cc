#include "pch.h"  // carries the precompiled header
