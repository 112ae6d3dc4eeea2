"""What every part uses: the error class, text, files and folders, arrays, threads and devices."""
