/* The set is built from our own files, so it is well-formed; a walk over its fields is enough. The field
 * numbers are those of google/protobuf/descriptor.proto. */
#include "grpc/descriptor.h"

#include <stdint.h>
#include <string.h>

enum { NAME = 1 }; /* of everything that has one */
enum { SET_FILE = 1 };
enum { FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };
enum { MESSAGE_FIELD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4, MESSAGE_ONEOF = 8 };
enum { ENUM_VALUE = 2 };
enum { SERVICE_METHOD = 2 };

/* The declarations within an element of a kind. */
enum kind { IN_FILE, IN_MESSAGE, IN_ENUM, IN_SERVICE, IN_NOTHING };

static const struct {
	enum kind within;
	uint32_t field;
	enum kind declares;
} members[] = {
    {IN_FILE, FILE_MESSAGE, IN_MESSAGE},      {IN_FILE, FILE_ENUM, IN_ENUM},
    {IN_FILE, FILE_SERVICE, IN_SERVICE},      {IN_MESSAGE, MESSAGE_FIELD, IN_NOTHING},
    {IN_MESSAGE, MESSAGE_NESTED, IN_MESSAGE}, {IN_MESSAGE, MESSAGE_ENUM, IN_ENUM},
    {IN_MESSAGE, MESSAGE_ONEOF, IN_NOTHING},  {IN_ENUM, ENUM_VALUE, IN_NOTHING},
    {IN_SERVICE, SERVICE_METHOD, IN_NOTHING},
};

static bool
varint(struct descriptor *d, uint64_t *out)
{
	*out = 0;
	for (unsigned shift = 0; d->nbytes && shift < 64; shift += 7) {
		unsigned char b = *d->data++;

		d->nbytes--;
		*out |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return true;
	}
	return false;
}

/* Take the next field that holds bytes; false: there is none left. */
static bool
next(struct descriptor *d, uint32_t *field, struct descriptor *value)
{
	uint64_t tag, n;

	while (varint(d, &tag) && varint(d, &n)) {
		if ((tag & 7) == 0)
			continue; /* a number: n was it */
		if ((tag & 7) != 2 || n > d->nbytes)
			return false;
		*field = (uint32_t)(tag >> 3);
		*value = (struct descriptor){d->data, (size_t)n};
		d->data += n;
		d->nbytes -= (size_t)n;
		return true;
	}
	return false;
}

/* The first field of that number. */
static bool
get(struct descriptor d, uint32_t number, struct descriptor *out)
{
	uint32_t field;

	while (next(&d, &field, out))
		if (field == number)
			return true;
	return false;
}

static bool
is(struct descriptor text, const char *name, size_t n)
{
	return text.nbytes == n && memcmp(text.data, name, n) == 0;
}

/* Whether "Name.Of.Member" is declared in d. */
static bool
declares(struct descriptor d, enum kind kind, const char *path)
{
	size_t n = strcspn(path, ".");
	struct descriptor member, name;
	uint32_t field;

	while (next(&d, &field, &member))
		for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
			if (members[i].within != kind || members[i].field != field ||
			    !get(member, NAME, &name) || !is(name, path, n))
				continue;
			if (!path[n] || declares(member, members[i].declares, path + n + 1))
				return true;
		}
	return false;
}

static bool
file_declares(struct descriptor file, const char *symbol)
{
	struct descriptor package;

	return get(file, FILE_PACKAGE, &package) && strlen(symbol) > package.nbytes + 1 &&
	       is(package, symbol, package.nbytes) && symbol[package.nbytes] == '.' &&
	       declares(file, IN_FILE, symbol + package.nbytes + 1);
}

bool
descriptor_of_file(const char *file_name, struct descriptor *out)
{
	struct descriptor set = {grpc_descriptors, grpc_descriptors_size}, name;
	uint32_t field;

	while (next(&set, &field, out))
		if (field == SET_FILE && get(*out, NAME, &name) &&
		    is(name, file_name, strlen(file_name)))
			return true;
	return false;
}

bool
descriptor_of_symbol(const char *symbol, struct descriptor *out)
{
	struct descriptor set = {grpc_descriptors, grpc_descriptors_size};
	uint32_t field;

	while (next(&set, &field, out))
		if (field == SET_FILE && file_declares(*out, symbol))
			return true;
	return false;
}
