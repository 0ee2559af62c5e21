/*
 * elf.h - whether a file is a whole shared object of this machine.
 */
#ifndef DEV_ELF_H
#define DEV_ELF_H

#include "base/rc.h"

/*
 * elf_check - look before the dynamic linker does, which says little, and maps a file that has been
 * cut off without noticing: touching a missing page would be a SIGBUS.
 *
 * RC_INVAL: cannot be read. RC_BADDATA: is none. The sentence begins with the path.
 */
enum rc elf_check(const char *path, struct err *err);

#endif
