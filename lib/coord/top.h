/*
 * top.h - the requests that the coordinator answers by itself.
 */
#ifndef COORD_TOP_H
#define COORD_TOP_H

#include "coord/persist/persist.h"

/* The end of a step: all that follows from it, and its records. */
void coord_step_end(struct coord *c);

handler on_list_devices, on_status;    /* status.c */
handler on_all_reduce_ring, on_memcpy; /* lab.c */

#endif
