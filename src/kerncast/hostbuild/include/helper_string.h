/* Options of the command line, as programs made after NVIDIA's samples read them: --name, -name=value.
 * Source: the names and meanings in the documentation of the CUDA samples, "Common". */
#ifndef COMMON_HELPER_STRING_H_
#define COMMON_HELPER_STRING_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef STRCASECMP
#define STRCASECMP strcasecmp
#endif
#ifndef STRNCASECMP
#define STRNCASECMP strncasecmp
#endif
#ifndef STRCPY
#define STRCPY(to, bytes, from) strcpy(to, from)
#endif
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif

/* What follows an option's name: "" for the name alone, the text behind "=", NULL where it is another option. */
inline const char *kerncast_value_of(const char *word, const char *name) {
  size_t length = strlen(name);
  if (*word != '-') return NULL;
  while (*word == '-') word++;
  if (strncasecmp(word, name, length)) return NULL;
  word += length;
  return *word == '=' ? word + 1 : *word ? NULL : word;
}

inline const char *kerncast_find_option(int argc, const char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (const char *value = kerncast_value_of(argv[i], name)) return value;
  return NULL;
}

inline bool checkCmdLineFlag(const int argc, const char **argv, const char *name) {
  return kerncast_find_option(argc, argv, name) != NULL;
}

inline int getCmdLineArgumentInt(const int argc, const char **argv, const char *name) {
  const char *value = kerncast_find_option(argc, argv, name);
  return value ? atoi(value) : 0;
}

inline float getCmdLineArgumentFloat(const int argc, const char **argv, const char *name) {
  const char *value = kerncast_find_option(argc, argv, name);
  return value ? (float)atof(value) : 0.f;
}

inline bool getCmdLineArgumentString(const int argc, const char **argv, const char *name, char **text) {
  const char *value = kerncast_find_option(argc, argv, name);
  *text = (char *)value;
  return value != NULL;
}

/* The file itself, or the one of this name in the folder "data". */
inline char *sdkFindFilePath(const char *name, const char *program) {
  (void)program;
  static const char *const folders[] = {"", "data/", "../data/", "./"};
  for (const char *folder : folders) {
    char *path = (char *)malloc(strlen(folder) + strlen(name) + 1);
    strcat(strcpy(path, folder), name);
    if (FILE *file = fopen(path, "rb")) {
      fclose(file);
      return path;
    }
    free(path);
  }
  return NULL;
}

#endif
