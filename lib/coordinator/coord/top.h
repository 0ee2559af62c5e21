/*
 * top.h - the requests that the coordinator answers by itself.
 */
#ifndef COORD_TOP_H
#define COORD_TOP_H

#include "coord/persist/persist.h"

handler on_status;		       /* status.c */
handler on_all_reduce_ring, on_memcpy; /* lab.c */

#endif
