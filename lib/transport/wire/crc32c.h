/*
 * crc32c.h - the checksum of data frames: CRC-32C, which processors compute as fast as they read.
 *
 * Polynomial 0x1edc6f41 (Castagnoli), reflected, start and end inverted, as in iSCSI (RFC 3720,
 * B.4): the crc of "123456789" is 0xe3069283. The same on every machine, with or without the
 * instruction (SSE 4.2). Checked by: tests/unit/wire/t_frame.c
 */
#ifndef WIRE_CRC32C_H
#define WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t nbytes);

/* The one without the instruction, for comparison. */
uint32_t crc32c_portable(const void *data, size_t nbytes);

#endif
