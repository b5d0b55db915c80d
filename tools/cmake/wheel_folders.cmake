# Where a wheel keeps what does not go into site-packages. scikit-build-core sets SKBUILD_SCRIPTS_DIR, whose content
# pip puts into the environment's bin/ folder, and SKBUILD_DATA_DIR, whose content goes into the environment's root.
# Without it, the same files are installed into bin/ and lib/ of the prefix.
set(FARANDOLE_PROGRAMS_DIR bin)
set(FARANDOLE_PREFIX_DIR .)
if(SKBUILD)
  set(FARANDOLE_PROGRAMS_DIR ${SKBUILD_SCRIPTS_DIR})
  set(FARANDOLE_PREFIX_DIR ${SKBUILD_DATA_DIR})
endif()
