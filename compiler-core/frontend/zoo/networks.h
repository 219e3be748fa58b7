/* The networks of networks.def. Private to zoo/. */
#ifndef KILN_COMPILER_CORE_FRONTEND_ZOO_NETWORKS_H
#define KILN_COMPILER_CORE_FRONTEND_ZOO_NETWORKS_H

#include "compiler-core/frontend/zoo/builder.h"

/* Adds the network, input included; returns its output. */
typedef kiln_zoo_value (*kiln_zoo_network)(kiln_zoo_builder *b);

#define X(name, function, what) kiln_zoo_value kiln_zoo_net_##function(kiln_zoo_builder *b);
#include "compiler-core/frontend/zoo/networks.def"
#undef X

#endif
