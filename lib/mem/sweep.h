/*
 * sweep.h - remove the memory files of devices that were killed.
 *
 * A device that ends removes its file, one that is killed cannot. Its file is removed by the next program of
 * that user, if the header says that it is scratch (not --mem-file's), no device has the file, and nobody waits
 * for the device: respawn and spare go on with its memory.
 */
#ifndef MEM_SWEEP_H
#define MEM_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a coordinator, which is never "", is there and may wait for the device. NULL as the function: none
 * does. */
typedef bool (*sweep_waits_fn)(const char *coordinator);

#define SWEEP_FOLDER "/dev/shm" /* where devices that were not told otherwise have their files */

/* Every file in `folder` that is named as devices of this user name theirs. Returns how many were removed. */
unsigned sweep_folder(const char *folder, sweep_waits_fn waits);

/* One file. device_id 0: any device's. True: it was removed. */
bool sweep_file(const char *path, uint64_t device_id, sweep_waits_fn waits);

#endif
