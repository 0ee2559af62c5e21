/*
 * models.h - models that trainings upload in pieces, and the newest complete one.
 *
 * Pure, as all of this room; callers lock. A complete model never changes, and lives while it is held.
 * Incomplete models are invisible and dropped with their client.
 */
#ifndef COORD_MODELS_H
#define COORD_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

#define MODELS_MAX_BYTES     (256ull << 20)  /* of one model */
#define MODELS_MAX_TOTAL     (1024ull << 20) /* of all held and incoming models */
#define MODELS_MAX_UPLOADS   8		     /* concurrent */
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

/* NULL: out of memory. models_free (NULL is legal): all held models must be released. */
struct models *models_new(void);
void models_free(struct models *m);

/*
 * models_put - add a piece; a client's pieces come in order, the first one at offset 0, which drops its
 * earlier upload.
 *
 * Errors, after which the upload is dropped: RC_INVAL not in order, too large, or not larger than
 * the last version of this training; RC_BUSY too many uploads; RC_NOMEM.
 */
enum rc models_put(struct models *m, const struct model_piece *p, struct err *err);

/* A client has disconnected. */
void models_gone(struct models *m, uint64_t client);

/* Hold the newest complete model, to be released; NULL: none yet. */
struct model *models_hold(struct models *m);
void models_release(struct models *m, struct model *model);

#endif
