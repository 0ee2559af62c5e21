#include <inttypes.h>
#include <stdio.h>

#include "coord/core/core.h"

#define VALUE_MAX (3u << 20) /* bytes of a record */

static void
record_put_bytes(struct coord *c, const char *key, const struct buf *value, bool promise)
{
	struct coord_action a = {.kind = COORD_STORE, .promise = promise};

	snprintf(a.address, sizeof a.address, "%s", key);
	if (value && value->len > VALUE_MAX)
		act_log(c, "record %s: not stored: %zu bytes are too many", key, value->len);
	else if (value && !(buf_reserve(&a.body, value->len + 1) &&
			    buf_add(&a.body, value->data, value->len)))
		act_log(c, "record %s: not stored: out of memory", key);
	else
		act(c, &a);
}

void
record_put(struct coord *c, const char *key, const ProtobufCMessage *value, bool promise)
{
	struct buf b = {0};

	if (!c->cfg.persists)
		return;
	if (!value)
		record_put_bytes(c, key, NULL, promise);
	else if (buf_pack(&b, value))
		record_put_bytes(c, key, &b, promise);
	else
		act_log(c, "record %s: not stored: out of memory", key);
	buf_fini(&b);
}

void
record_key(char key[RECORD_KEY_MAX], const char *prefix, uint64_t id)
{
	snprintf(key, RECORD_KEY_MAX, "%s/%016" PRIx64, prefix, id);
}

uint64_t
record_mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3ull;
}

void
record_reserve(uint64_t used, uint64_t *reserved)
{
	if (used > *reserved)
		*reserved = used + COORD_RESERVE;
}

enum rc
record_nonsense(const char *key, struct err *err)
{
	return err_set(err, RC_BADDATA, "record %s: malformed", key);
}

enum rc
record_nomem(const char *key, struct err *err)
{
	return err_set(err, RC_NOMEM, "record %s: out of memory", key);
}
