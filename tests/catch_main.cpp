// The one Catch2 entry point that every test runner links.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
