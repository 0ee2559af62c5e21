/*
 * clones.h - function multiversioning for hot loops.
 *
 * A function marked HOT_CLONES is compiled for plain x86-64, AVX2 and AVX-512, and the dynamic
 * linker picks one when the program starts. Elsewhere (other processors, a libc without ifunc) it
 * is compiled once.
 *
 * Off under the sanitizers: the resolvers run before their run-time is set up, and crash in it.
 */
#ifndef MEM_CLONES_H
#define MEM_CLONES_H

#include <stddef.h>
#include <stdint.h> /* defines __GLIBC__ where that is the libc */

#ifdef __has_feature
#define CLONES_HAS_FEATURE(x) __has_feature(x)
#else
#define CLONES_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                 \
    CLONES_HAS_FEATURE(address_sanitizer) || CLONES_HAS_FEATURE(thread_sanitizer) || \
    CLONES_HAS_FEATURE(memory_sanitizer) || CLONES_HAS_FEATURE(undefined_behavior_sanitizer)
#define CLONES_SANITIZED 1
#else
#define CLONES_SANITIZED 0
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !CLONES_SANITIZED && __has_attribute(target_clones)
#define HOT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define HOT_CLONES
#endif

/* Before a loop whose iterations are independent although its pointers may be equal. A hint: clang
 * warns where it cannot follow it, at -O0 or when a processor lacks the operation. */
#if CLONES_SANITIZED
#define HOT_LOOP
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define HOT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define HOT_LOOP _Pragma("GCC ivdep")
#else
#define HOT_LOOP
#endif

#endif
