/*
 * crc64.h - CRC-64/XZ, the checksum of vectors: polynomial of ECMA-182, reflected, begun and ended inverted.
 *
 * The one of the .xz format: of "123456789" it is 995dc9bbdf1939fa. It tells any change of up to 64 bits in a row.
 */
#ifndef MEM_CRC64_H
#define MEM_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of n bytes that follow others with the checksum `before`, which is 0 for none. */
uint64_t crc64(uint64_t before, const void *data, size_t n);

#endif
