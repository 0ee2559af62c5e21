/* thrust/detail/allocator/temporary_allocator.inl - thrust's own, and what its code for the device needs; see cpp_compatibility.h. */
#pragma once

#include <thrust/system/cuda/detail/terminate.h>

#include_next <thrust/detail/allocator/temporary_allocator.inl>
