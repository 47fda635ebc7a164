int below() { return 7; }
