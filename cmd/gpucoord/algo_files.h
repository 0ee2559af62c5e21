/*
 * algo_files.h - algorithms from files that the coordinator begins with.
 */
#ifndef GPUCOORD_ALGO_FILES_H
#define GPUCOORD_ALGO_FILES_H

#include "base/rc.h"
#include "coord/coord.h"
#include "decisions.h"

/*
 * algo_files_load - take in each file of a list, under the name in it; one of a former process gives way.
 *
 *	list	"FILE:FILE"; NULL, "": none
 *	record	where they are recorded
 *
 * Errors: with the file's path, those of file_text and of coord_add_algo.
 */
enum rc algo_files_load(struct coord *c, const char *list, const struct decisions *record,
			struct err *err);

#endif
