/*
 * crc64.h - CRC-64/XZ, the checksum of vectors: polynomial of ECMA-182, reflected, initial and final
 * inversion.
 *
 * As in the .xz format: "123456789" has 995dc9bbdf1939fa. It detects every burst error of up to 64 bits.
 */
#ifndef MEM_CRC64_H
#define MEM_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Continue the checksum `before` (0 at the start) with n bytes. */
uint64_t crc64(uint64_t before, const void *data, size_t n);

#endif
