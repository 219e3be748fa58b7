/* Compiler extensions, each behind one name. Nothing else in the tree spells an attribute. */
#ifndef KILN_BASE_MACROS_H
#define KILN_BASE_MACROS_H

#define KILN_MUST_USE __attribute__((warn_unused_result))
#define KILN_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define KILN_NORETURN __attribute__((noreturn))
#define KILN_UNUSED __attribute__((unused))
/* Not counted by a coverage-guided fuzzer. */
#ifdef __clang__
#define KILN_NO_COVERAGE __attribute__((no_sanitize("coverage")))
#else
#define KILN_NO_COVERAGE __attribute__((no_sanitize_coverage))
#endif
#define KILN_TARGET(features) \
    __attribute__((target(features))) /* one function for a newer instruction set */

/* After writing instructions into [begin, end): makes processors with separate caches see them. */
#define KILN_CODE_CHANGED(begin, end) __builtin___clear_cache((char *)(begin), (char *)(end))

/* 1 if such a sanitizer is part of the program. Both map memory and keep freed memory;
 * ThreadSanitizer has a thread of its own, also in the child of a fork. */
#if defined(__has_feature)
#define KILN_SANITIZED_ADDRESS __has_feature(address_sanitizer)
#define KILN_SANITIZED_THREAD __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define KILN_SANITIZED_ADDRESS 1
#else
#define KILN_SANITIZED_ADDRESS 0
#endif
#if defined(__SANITIZE_THREAD__)
#define KILN_SANITIZED_THREAD 1
#else
#define KILN_SANITIZED_THREAD 0
#endif
#endif
#define KILN_SANITIZED (KILN_SANITIZED_ADDRESS || KILN_SANITIZED_THREAD)

#define KILN_ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define KILN_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KILN_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
