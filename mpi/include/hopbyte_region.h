/* Names a region of a program for hopbyte's preload libraries. Costs nothing and needs no library: without a preload
 * the symbols are undefined and the macros do nothing. Regions nest. Every rank that opens one must close it. */
#ifndef HOPBYTE_REGION_H
#define HOPBYTE_REGION_H

#ifdef __cplusplus
extern "C" {
#endif
extern void hopbyte_region_begin(const char *name) __attribute__((weak));
extern void hopbyte_region_end(void) __attribute__((weak));
#ifdef __cplusplus
}
#endif

#define HOPBYTE_REGION_BEGIN(name) (hopbyte_region_begin ? hopbyte_region_begin(name) : (void)0)
#define HOPBYTE_REGION_END() (hopbyte_region_end ? hopbyte_region_end() : (void)0)

#endif
