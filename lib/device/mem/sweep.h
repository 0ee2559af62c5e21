/*
 * sweep.h - remove the memory files of devices that were killed.
 *
 * A device that ends removes its file, one that is killed cannot. Its file is removed by the next program of
 * that user, if the header marks it as scratch (not --mem-file's), no device has the file, and no
 * coordinator waits for the device: respawn and spare continue with its memory.
 */
#ifndef MEM_SWEEP_H
#define MEM_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Return true if a coordinator (never "") is running and may wait for the device. NULL function: none
 * does. */
typedef bool (*sweep_waits_fn)(const char *coordinator);

#define SWEEP_FOLDER "/dev/shm" /* the default folder of memory files */

/* Sweep every file in `folder` whose name is that of a memory file of this user. Returns the number
 * removed. */
unsigned sweep_folder(const char *folder, sweep_waits_fn waits);

/* Sweep one file. device_id 0: any device's. True: it was removed. */
bool sweep_file(const char *path, uint64_t device_id, sweep_waits_fn waits);

#endif
