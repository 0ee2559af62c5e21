#include "coord/run/run.h"
#include "coord/persist/persist.h"
