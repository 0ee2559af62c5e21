/*
 * descriptors.h - a FileDescriptorSet of all that is in proto/, made when this is built.
 */
#ifndef GRPC_DESCRIPTORS_H
#define GRPC_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char grpc_descriptors[];
extern const size_t grpc_descriptors_size;

#endif
