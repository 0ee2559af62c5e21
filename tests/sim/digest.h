/*
 * digest.h - a number that shows whether two simulated worlds took the same course.
 *
 * It covers times, nodes, kinds of events, ids and codes. It leaves out texts, addresses, names and
 * bytes, and a field that holds its default: so new texts and unused new fields do not change it.
 */
#ifndef DIGEST_H
#define DIGEST_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct digest {
	uint64_t h;
};

void digest_add(struct digest *d, uint64_t v);
/* Every number, enum and flag in the message that is set, under the number of its field. */
void digest_message(struct digest *d, const ProtobufCMessage *m);

#endif
