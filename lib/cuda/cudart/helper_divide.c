/* DIV and IDIV of x86-64, decoded: optional prefixes, F6 or F7, ModRM with /6 or /7. */
#include "cudart/helper_impl.h"

#if defined(__x86_64__)

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { RAX = 0, RDX = 2, RSP = 4, NO_INDEX = 4 };

static greg_t *
reg(ucontext_t *u, unsigned n)
{
	static const int of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				   REG_R12, REG_R13, REG_R14, REG_R15};

	return &u->uc_mcontext.gregs[of[n]];
}

struct instruction {
	const uint8_t *at; /* after the bytes that have been read */
	unsigned rex, bits;
	bool is_signed;
	uint64_t divisor;
};

static int64_t
displacement(struct instruction *in, unsigned bytes)
{
	int32_t wide;
	int8_t narrow;

	if (bytes == 1) {
		memcpy(&narrow, in->at, 1);
		in->at += 1;
		return narrow;
	}
	memcpy(&wide, in->at, 4);
	in->at += 4;
	return wide;
}

/* The address of a memory operand. */
static uint64_t
address(ucontext_t *u, struct instruction *in, uint8_t modrm)
{
	unsigned mod = modrm >> 6, base = modrm & 7, index, scale;
	uint64_t sum = 0;

	if (base == RSP) {
		uint8_t sib = *in->at++;

		scale = sib >> 6;
		index = (sib >> 3 & 7) | (in->rex & 2) << 2;
		base = sib & 7;
		if (index != NO_INDEX)
			sum += (uint64_t)*reg(u, index) << scale;
		if (mod == 0 && base == 5)
			return sum + (uint64_t)displacement(in, 4);
	} else if (mod == 0 && base == 5) { /* relative to the next instruction */
		int64_t off = displacement(in, 4);

		return (uint64_t)(uintptr_t)in->at + (uint64_t)off;
	}
	sum += (uint64_t)*reg(u, base | (in->rex & 1) << 3);
	return mod ? sum + (uint64_t)displacement(in, mod == 1 ? 1 : 4) : sum;
}

static bool
decode(ucontext_t *u, struct instruction *in)
{
	uint8_t op, modrm;
	bool half = false;

	in->at = (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];
	for (; *in->at == 0x66; in->at++)
		half = true;
	if ((*in->at & 0xf0) == 0x40)
		in->rex = *in->at++;
	op = *in->at++;
	modrm = *in->at++;
	if (op != 0xf7 || (modrm >> 3 & 6) != 6)
		return false;
	in->is_signed = modrm >> 3 & 1;
	in->bits = in->rex & 8 ? 64 : half ? 16 : 32;
	if (modrm >> 6 == 3)
		in->divisor = (uint64_t)*reg(u, (modrm & 7) | (in->rex & 1) << 3);
	else
		memcpy(&in->divisor, (const void *)(uintptr_t)address(u, in, modrm), in->bits / 8);
	return true;
}

/* Write a register of that width as the processor does. */
static void
write(ucontext_t *u, unsigned n, unsigned bits, uint64_t v)
{
	uint64_t keep = bits == 16 ? ~UINT64_C(0xffff) : 0;
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	*reg(u, n) = (greg_t)(((uint64_t)*reg(u, n) & keep) | (v & mask));
}

bool
helper_divide(void *context)
{
	ucontext_t *u = context;
	struct instruction in = {0};
	uint64_t mask, low;
	bool by_zero;

	if (!decode(u, &in))
		return false;
	mask = in.bits == 64 ? UINT64_MAX : (UINT64_C(1) << in.bits) - 1;
	low = (uint64_t)*reg(u, RAX) & mask;
	by_zero = (in.divisor & mask) == 0;
	write(u, RAX, in.bits, by_zero ? UINT64_MAX : low);
	write(u, RDX, in.bits, by_zero ? low : 0);
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)in.at;
	return true;
}

#else

bool
helper_divide(void *context)
{
	(void)context;
	return false;
}

#endif
