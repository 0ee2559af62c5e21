/*
 * algo_files.h - algorithms from files that the coordinator loads at its start.
 */
#ifndef GPUCOORD_ALGO_FILES_H
#define GPUCOORD_ALGO_FILES_H

#include "base/rc.h"
#include "coord/coord.h"
#include "decisions.h"

/*
 * algo_files_load - add each file of a list under the name in it, replacing that of a former process.
 *
 *	list	"FILE:FILE"; NULL, "": none
 *	record	the recording to add them to
 *
 * Errors, with the file's path: those of file_text and of coord_add_algo.
 */
enum rc algo_files_load(struct coord *c, const char *list, const struct decisions *record,
			struct err *err);

#endif
