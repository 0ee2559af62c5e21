/*
 * Switching stacks. Only callee-saved registers are saved, so a switch costs a few ns. Processors
 * other than x86-64 and aarch64 use ucontext, which needs a system call.
 */
#include "cudart/fiber_impl.h"

#include <stdint.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t nbytes);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *nbytes);
static _Thread_local struct fiber_context *coming_from;
#endif

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define ENTRY 0
#define FRAME 2 /* the stack is aligned as at a call */
#else
__asm__(".text\n"
	".globl fiber_swap\n"
	".hidden fiber_swap\n"
	".type fiber_swap,%function\n"
	"fiber_swap:\n"
	"	sub sp, sp, #160\n"
	"	stp x19, x20, [sp, #0]\n"
	"	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n"
	"	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n"
	"	str x9, [x0]\n"
	"	mov sp, x1\n"
	"	ldp x19, x20, [sp, #0]\n"
	"	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n"
	"	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #160\n"
	"	ret\n"
	".size fiber_swap,.-fiber_swap\n");

#define ENTRY 11 /* x30 */
#define FRAME 20
#endif

void
fiber_context_make(struct fiber_context *c, void *stack, size_t nbytes, void (*entry)(void))
{
	void **sp = (void **)(void *)((char *)stack + nbytes) - FRAME;

	memset(sp, 0, FRAME * sizeof *sp);
	memcpy(&sp[ENTRY], &entry, sizeof entry);
	c->sp = sp;
#ifdef __SANITIZE_ADDRESS__
	c->fake = NULL;
	c->bottom = stack;
	c->nbytes = nbytes;
#endif
}

#ifdef __SANITIZE_ADDRESS__
void
fiber_context_switch(struct fiber_context *from, struct fiber_context *to)
{
	coming_from = from;
	__sanitizer_start_switch_fiber(&from->fake, to->bottom, to->nbytes);
	fiber_swap(&from->sp, to->sp);
	__sanitizer_finish_switch_fiber(from->fake, (const void **)&coming_from->bottom,
					&coming_from->nbytes);
}
#endif

void
fiber_context_begin(void)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(NULL, (const void **)&coming_from->bottom,
					&coming_from->nbytes);
#endif
}

#else

void
fiber_context_make(struct fiber_context *c, void *stack, size_t nbytes, void (*entry)(void))
{
	getcontext(&c->at);
	c->at.uc_stack.ss_sp = stack;
	c->at.uc_stack.ss_size = nbytes;
	c->at.uc_link = NULL;
	makecontext(&c->at, entry, 0);
}

void
fiber_context_switch(struct fiber_context *from, struct fiber_context *to)
{
	swapcontext(&from->at, &to->at);
}

void
fiber_context_begin(void)
{
}

#endif
