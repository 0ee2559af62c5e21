#include "nccl/id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK	"gpusim1"
#define ID_TEXT 8

void
nccl_id_make(const struct gpusim_unique_id *id, const char *address, ncclUniqueId *out)
{
	memset(out, 0, sizeof *out);
	memcpy(out->internal, MARK, sizeof MARK);
	memcpy(out->internal + ID_TEXT, id->text, sizeof id->text);
	if (strlen(address) < NCCL_ID_ROOM)
		memcpy(out->internal + NCCL_ID_ADDRESS, address, strlen(address));
}

enum rc
nccl_id_read(const ncclUniqueId *in, struct gpusim_unique_id *id, char *address, struct err *err)
{
	_Static_assert(ID_TEXT + sizeof id->text == NCCL_ID_ADDRESS, "the parts are adjacent");

	if (memcmp(in->internal, MARK, sizeof MARK) != 0 ||
	    in->internal[NCCL_ID_ADDRESS - 1] != '\0' ||
	    strspn(in->internal + ID_TEXT, "0123456789abcdef") != sizeof id->text - 1 ||
	    in->internal[NCCL_UNIQUE_ID_BYTES - 1] != '\0')
		return err_set(
		    err, RC_INVAL,
		    "the ncclUniqueId does not come from this library's ncclGetUniqueId");
	memcpy(id->text, in->internal + ID_TEXT, sizeof id->text);
	memcpy(address, in->internal + NCCL_ID_ADDRESS, NCCL_ID_ROOM);
	return RC_OK;
}

void
nccl_id_join(const struct gpusim_unique_id *ids, size_t n, struct gpusim_unique_id *out)
{
	uint64_t half[2] = {0xcbf29ce484222325, 0x9ae16a3b2f90404f};

	*out = ids[0];
	if (n == 1)
		return;
	for (size_t i = 0; i < n; i++)
		for (const char *p = ids[i].text; *p; p++)
			for (int h = 0; h < 2; h++)
				half[h] = (half[h] ^ (unsigned char)*p) * 0x100000001b3;
	snprintf(out->text, sizeof out->text, "%016" PRIx64 "%016" PRIx64, half[0], half[1]);
}
