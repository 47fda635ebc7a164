#error "a user's own header was included in the place of Ferrite's"
