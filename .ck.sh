cd /tmp/wt/ir/compiler-core/ir
F="-std=gnu11 -D_GNU_SOURCE -I../.. -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror -O1 -c -o /dev/null"
for f in ${*:-*.c}; do gcc $F $f && clang-19 $F $f; done
