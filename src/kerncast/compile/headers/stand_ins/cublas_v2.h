// Stands for the headers of libraries that only host code calls.
#pragma once
