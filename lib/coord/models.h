/*
 * models.h - models that trainings hand in, piece by piece, and the newest that is whole.
 *
 * Pure, as all of this room; callers lock. A complete model never changes, and lives as long as
 * somebody holds it. Nobody sees an incomplete one; it is dropped with its client.
 */
#ifndef COORD_MODELS_H
#define COORD_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define MODELS_MAX_BYTES     (256ull << 20)  /* of one */
#define MODELS_MAX_TOTAL     (1024ull << 20) /* of all that are held or come */
#define MODELS_MAX_UPLOADS   8		     /* at a time */
#define MODELS_MAX_TRAININGS 64		     /* whose versions are remembered */

struct model {
	uint64_t training, version;
	struct buf bytes;
	unsigned refs;
};

struct model_piece {
	uint64_t client, training, version;
	uint64_t nbytes, offset; /* of the whole; of this piece */
	const void *data;
	size_t ndata;
};

struct models;

/* NULL: out of memory. models_free: all that were held are released. NULL is legal. */
struct models *models_new(void);
void models_free(struct models *m);

/*
 * models_put - take a piece; a client's pieces come in order, the first one at offset 0, which drops what
 * it has begun before.
 *
 * Errors, after which the upload is dropped: RC_INVAL not in order, too large, or not larger than
 * the last version of this training; RC_BUSY too many at a time; RC_NOMEM.
 */
enum rc models_put(struct models *m, const struct model_piece *p, struct err *err);

/* Nothing more comes from a client. */
void models_gone(struct models *m, uint64_t client);

/* The newest that is whole, to be released; NULL: there is none yet. */
struct model *models_hold(struct models *m);
void models_release(struct models *m, struct model *model);

#endif
