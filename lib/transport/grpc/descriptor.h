/*
 * descriptor.h - find a file in the FileDescriptorSet by its name, or by what is declared in it.
 */
#ifndef GRPC_DESCRIPTOR_H
#define GRPC_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

/* A FileDescriptorSet of all that is in proto/, made when this is built. */
extern const unsigned char grpc_descriptors[];
extern const size_t grpc_descriptors_size;

/* A packed message, in static storage. */
struct descriptor {
	const unsigned char *data;
	size_t nbytes;
};

/* The FileDescriptorProto of "gpu_sim.proto"; false: there is none. */
bool descriptor_of_file(const char *name, struct descriptor *out);

/* That of the file which declares "package.Type", or a member of it such as "package.Service.Method". */
bool descriptor_of_symbol(const char *symbol, struct descriptor *out);

#endif
