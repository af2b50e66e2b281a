"""VERB machine: PTX becomes machine instructions (SASS), estimated or disassembled."""
