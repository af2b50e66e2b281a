// Stands for the headers of C and of systems that device code needs nothing of.
#pragma once
