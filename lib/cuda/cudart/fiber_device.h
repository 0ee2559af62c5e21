/* fiber_device.h - how a kernel ends itself. */
#ifndef CUDART_FIBER_DEVICE_H
#define CUDART_FIBER_DEVICE_H

enum fiber_failure { FIBER_TRAP, FIBER_ASSERT };

/* Called in a kernel that fails by itself, on its own stack; must not return. Set before kernels run. */
typedef void fiber_fail_fn(enum fiber_failure why, const char *text);
void fiber_on_fail(fiber_fail_fn *fn);

#endif
