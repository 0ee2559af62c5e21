/* fiber_context.h - a stack and the execution state on it. */
#ifndef CUDART_FIBER_CONTEXT_H
#define CUDART_FIBER_CONTEXT_H

#include <stddef.h>

#if defined(__x86_64__) || defined(__aarch64__)
struct fiber_context {
	void *sp;
#ifdef __SANITIZE_ADDRESS__
	void *fake, *bottom;
	size_t nbytes;
#endif
};
#else
#include <ucontext.h>
struct fiber_context {
	ucontext_t at;
};
#endif

/* Make a context that runs entry() on a stack; entry never returns. */
void fiber_context_make(struct fiber_context *c, void *stack, size_t nbytes, void (*entry)(void));

/* Continue at `to`; returns when another context switches back to `from`. */
void fiber_context_switch(struct fiber_context *from, struct fiber_context *to);

/* The first call on a new context. */
void fiber_context_begin(void);

#endif
