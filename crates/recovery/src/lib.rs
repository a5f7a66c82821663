//! Sans-IO loss recovery: what was delivered, what was lost.
