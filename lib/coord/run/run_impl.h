#include "coord/persist/persist.h"
