"""What several tests share: networks, specs, files and runs made for them."""
