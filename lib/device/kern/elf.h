/*
 * elf.h - check that a file is a complete shared object for this machine.
 */
#ifndef DEV_ELF_H
#define DEV_ELF_H

#include "base/rc.h"

/*
 * elf_check - check before the dynamic linker does, whose messages say little, and which maps a truncated
 * file without noticing: touching a missing page would be a SIGBUS.
 *
 * RC_INVAL: cannot be read. RC_BADDATA: not a shared object. The message begins with the path.
 */
enum rc elf_check(const char *path, struct err *err);

#endif
