/* Cray's second name of the same header. */
#include "pmi.h"
