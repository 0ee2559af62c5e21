/* Fuzz the files of training: the same bytes are read as IDX (raw or gzipped) and as .npz. Accepted
 * files are consistent: dimensions, sizes, data that can be read to the last byte. */
#include <stdlib.h>
#include <string.h>

#include "nn/idx.h"
#include "nn/npz.h"

#include "fuzz.h"

static void
try_idx(const uint8_t *data, size_t size)
{
	struct idx idx = {0};
	struct err err = {0};
	uint64_t product = 1;
	enum rc rc = idx_parse(data, size, "fuzz", &idx, &err);

	if (rc != RC_OK) {
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !idx.data);
		return;
	}
	require(idx.ndim >= 1 && idx.ndim <= IDX_MAX_DIMS);
	for (uint32_t i = 0; i < IDX_MAX_DIMS; i++) {
		require(i < idx.ndim ? idx.dim[i] >= 1 : idx.dim[i] == 0);
		product *= i < idx.ndim ? idx.dim[i] : 1;
	}
	require(product == idx.nbytes);
	read_all(idx.data, idx.nbytes);
	idx_fini(&idx);
}

static void
try_npz(const uint8_t *data, size_t size)
{
	struct npz npz = {0};
	struct err err = {0};
	enum rc rc = npz_parse(data, size, "fuzz", NULL, NULL, &npz, &err);

	if (rc != RC_OK) {
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !npz.array);
		return;
	}
	require(npz.narrays <= NPZ_MAX_ARRAYS);
	for (size_t i = 0; i < npz.narrays; i++) {
		const struct npz_array *a = &npz.array[i];
		uint64_t nbytes = a->type == NPZ_F32 ? 4 : 8;

		require(npz_find(&npz, a->name) == a && a->ndim <= NPZ_MAX_DIMS);
		for (uint32_t k = 0; k < a->ndim; k++)
			nbytes *= a->dim[k];
		read_all(a->data, nbytes);
	}
	npz_fini(&npz);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_idx(data, size);
	try_npz(data, size);
	return 0;
}
